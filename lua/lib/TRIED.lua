-- A parked message that failed as a probe is behind the others of its lane: this follows the lane in its score in
-- `scheduled`. So the lane of a dependency is a range of two scores, wherever its messages are read or counted. In `seats`
-- it follows the lane in the score of a pass whose call did not end in time (lib/end_pass).
-- gives: TRIED
local TRIED = '.5'
