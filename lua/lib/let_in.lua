-- Lets in the heads of these lanes, as many as seats are free: they become ready, behind
-- all that is due by now. A head that holds a seat already
-- goes first: a script was cut off. Who lets in checks record and state: a row whose message is gone, leased or elsewhere
-- is dropped, and the next is taken.
--   room: so many of each lane, whether seats are free or not; nil: as many as are
-- needs: rule, BLOCKED, now, id_of, head_of, parse_state, member_of, score_of, wake_one; keys: states, seats, ready, scheduled
-- gives: let_in
local MOST = 1000 -- rows that one call looks at (I9)

-- The head of the message of a blocked row, if it waits there; whether it is of a later form, which is passed.
local function blocked_head(id, row)
  local text = redis.call('HGET', states, id)
  local head, later = head_of(id, text)
  local state = head and parse_state(text, head.birth)
  local waits = state and state.part == 'live' and state.mark == '-' and member_of(id, head, state.due) == row
  return waits and head, later
end

local function let_in(lanes, room)
  local taken, came, gone, looked = {}, {}, {}, 0
  for _, lane in ipairs(lanes) do
    local score, at, free = BLOCKED + lane, 0, room
    local row = redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', at, 1)[1]
    free = free or row and rule.limit - redis.call('ZCOUNT', seats, lane, lane)
    while row and looked < MOST do
      local id = id_of(row)
      local head, later = blocked_head(id, row)
      at, looked = at + 1, looked + 1
      if head and (free > 0 or redis.call('ZSCORE', seats, id)) then
        taken[#taken + 1], taken[#taken + 2], free = lane, id, free - 1
        came[#came + 1], came[#came + 2] = score_of(head.priority, now + 1), row
        gone[#gone + 1] = row
      elseif not head and not later then
        gone[#gone + 1] = row
      end
      row = (later or not head or free > 0) and redis.call('ZRANGEBYSCORE', scheduled, score, score, 'LIMIT', at, 1)[1]
    end
  end
  if #came > 0 then
    redis.call('ZADD', seats, unpack(taken))
    redis.call('ZADD', ready, unpack(came))
    wake_one()
  end
  if #gone > 0 then
    redis.call('ZREM', scheduled, unpack(gone)) -- the last: by such a row the next sees what was cut off
  end
end
