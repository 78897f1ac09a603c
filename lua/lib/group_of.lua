-- The group of a dead letter: the fingerprint of the failure that it died of, the newest one in its history.
-- needs: last_failure; keys: history
-- gives: group_of
local function group_of(id, state)
  local expired = state.reason == 'expired'
  local failure = last_failure(redis.call('HGET', history, id) or '')
  if expired and tonumber(failure:match('^%S*\t(%d+)') or nil) ~= state.due then
    failure = '' -- it expired without a failure
  end
  local group = failure:match('"fingerprint":"(%w*)"') or '' -- in a text the quotes would be escaped
  return group == '' and expired and 'expired' or group:sub(1, 12)
end
