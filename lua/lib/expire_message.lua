-- Expires one waiting message (I7).
-- needs: member_of, bury; keys: ready, scheduled, expiring
-- gives: expire_message
local function expire_message(id, state, head)
  local member = member_of(id, head, state.due)
  bury(id, state, head, 'expired', 'expired')
  redis.call('ZREM', ready, member)
  redis.call('ZREM', scheduled, member)
  redis.call('ZREM', expiring, id)
end
