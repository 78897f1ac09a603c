-- If keys have a rate: whether a message that holds a seat of its lane may be ready now. If not, with ordered keys, also
-- its slot: the message keeps its seat and is due then, since no other message is let in before.
--   own: the score of its seat
-- needs: rule, digits, BY_RATE, slot_of; keys: seats
-- gives: comes_by_rate
local function comes_by_rate(id, lane, own)
  local slot = own == lane and slot_of(lane)
  if slot then
    return false, rule.in_order and slot or nil
  elseif own == lane then
    local score = digits(lane) .. BY_RATE
    if redis.call('ZCOUNT', seats, score, score) > 0 then
      return false
    end
    redis.call('ZADD', seats, score, id)
  end
  return true
end
