-- Whether a row of an index was left behind by a script that was cut off: its message is leased, or has another row, where
-- its state says. The only row of a message always counts, even if its record or state is damaged, so that no damage hides
-- a message.
-- needs: member_of; keys: ready, scheduled, dead, expired, leases
-- gives: left_over
local function left_over(index, row, id, state, head)
  if state.mark == '+' and redis.call('ZSCORE', leases, state.token) then
    return true
  end
  local member = member_of(id, head, state.due)
  local indexes = state.part == 'dead' and { dead } or state.part == 'expired' and { expired } or { ready, scheduled }
  for _, other in ipairs(indexes) do
    if (other ~= index or member ~= row) and redis.call('ZSCORE', other, member) then
      return true
    end
  end
  return false
end
