-- Expires one waiting message (I7).
-- needs: member_of, bury, leave; keys: ready, scheduled
-- gives: expire_message
local function expire_message(id, state, head)
  local member = member_of(id, head, state.due)
  bury(id, state, head, 'expired', 'expired')
  redis.call('ZREM', ready, member) -- it was in one of the two
  leave(id, scheduled, member)
end
