-- Whether this many charged failures are more than the policy in Redis allows now. If that policy cannot be read, there is
-- no limit here: the next failure is judged by the default policy.
-- needs: read_policy, setting; args: default_policy
-- gives: is_spent
local stands = read_policy(setting('redelivery') or default_policy)
local allowed = stands and stands.max_redeliveries
local function is_spent(charged)
  return type(allowed) == 'number' and charged > allowed
end
