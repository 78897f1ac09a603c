-- The part of lib/put for messages with a key, if the queue has a rule for keys.
-- needs: keeps_seat, enter, vacate, due_first, BLOCKED; keys: ready, scheduled
-- gives: seated_or_blocked, given_back

-- The index and the score of a message that is due: `ready` and its score there, if it has a seat of its lane.
local function seated_or_blocked(id, row, lane, score)
  due_first({ id })
  local may, slot = enter(id, row, lane)
  if may then
    return ready, score
  end
  return scheduled, slot or BLOCKED + lane
end

-- Called after its row and its state are written: if cut off before this, only the next message is not let in yet.
--   waits: for its redelivery, or, by the rate of keys, for its slot
local function given_back(id, state, waits)
  if not keeps_seat(state, waits) then
    vacate({ id })
  end
end
