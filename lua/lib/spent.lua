-- Whether so many charged failures are more than the policy that stands in Redis allows, just now. Of a policy that
-- cannot be read there is no limit here: the next failure is judged by the default one.
-- @include lib/policy
local stands = read_policy(setting('redelivery') or default_policy)
local allowed = stands and stands.max_redeliveries
return function(charged)
  return type(allowed) == 'number' and charged > allowed
end
