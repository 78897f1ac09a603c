-- Whether a row of an index was left behind by a script that was cut off: a lease holds its message, or it stands at
-- another place, where its state says. The only row of a message counts, whatever a damaged record or state says, so
-- that no damage strands a message where nobody finds it.
local function left_over(index, row, id, state, head)
  if state.mark == '+' and redis.call('ZSCORE', leases, state.token) then
    return true
  end
  local member = member_of(id, head, state.due)
  local places = state.part == 'dead' and { dead } or state.part == 'expired' and { expired } or { ready, scheduled }
  for _, place in ipairs(places) do
    if (place ~= index or member ~= row) and redis.call('ZSCORE', place, member) then
      return true
    end
  end
  return false
end
