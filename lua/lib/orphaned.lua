-- Whether a message on the list of a lapsed claim is nowhere else: another program overwrote its state while it was held,
-- so no lease that exists holds it, and no index has it, in either form of its member (lib/order).
-- needs: member_of; keys: ready, scheduled, dead, expired, leases
-- gives: orphaned
local function orphaned(id, state, head)
  if state.mark == '+' then
    return not redis.call('ZSCORE', leases, state.token)
  end
  local born = math.floor(head.birth / 4096)
  for _, due in ipairs({ state.due, born, born + 1 }) do
    local member = member_of(id, head, due)
    for _, index in ipairs({ ready, scheduled, dead, expired }) do
      if redis.call('ZSCORE', index, member) then
        return false
      end
    end
  end
  return true
end
