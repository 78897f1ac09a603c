-- The only way a message comes to stand somewhere. The new place first, then the state, which is the moment
-- it counts; the caller removes the old place last. Cut off anywhere, it leaves at worst an index entry that
-- the state contradicts, and whoever meets one drops it (I9). waits: for state.due, which alone would not say it:
-- after a step back of the clock a message that was ready may be due in the future.
local function stand(id, state, head, waits)
  local member = member_of(id, head, state.due)
  if state.part == 'dead' then
    redis.call('ZADD', dead, state.due, member)
  elseif state.part == 'expired' then
    redis.call('ZADD', expired, state.due, member)
  elseif waits then
    redis.call('ZADD', scheduled, state.due, member)
  else
    redis.call('ZADD', ready, score_of(head.priority, state.due), member)
  end
  if state.part == 'live' and expiry_of(head, state) then
    redis.call('ZADD', expiring, head.expires, id)
  end
  state.mark = '-'
  redis.call('HSET', states, id, format_state(state))
end
