-- The end of the time to live of a message that waits (I7).
local function expire_message(id, state, head)
  local member = member_of(id, head, state.due)
  bury(id, state, head, 'expired', 'expired')
  redis.call('ZREM', ready, member)
  redis.call('ZREM', scheduled, member)
  redis.call('ZREM', expiring, id)
end
