-- Where keys have a rate, this stands behind the lane in the score of a seat until its message is handed out: so one of a lane
-- is.
-- gives: BY_RATE
local BY_RATE = '.5'
