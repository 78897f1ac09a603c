-- If keys have a rate, this follows the lane in the score of a seat until its message is handed out: one message of a lane
-- at most is in that state.
-- gives: BY_RATE
local BY_RATE = '.5'
