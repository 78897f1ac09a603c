-- The score, in `seats`, of the places of calls whose messages were cancelled (lib/cancelled_place); that of a seat is a lane.
-- gives: PLACES
local PLACES = -1
