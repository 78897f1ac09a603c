-- The handlers of these messages of a claim run from here on, and no others: a lapse charges them alone (lib/lapse).
-- Where the claim is over, or is not attributed, it changes nothing. Returns 1 where it was noted, else 0.
local claims = KEYS[1]
local token = ARGV[1]
-- items from ARGV[2]: id
local begun = token .. ':begun'
if redis.call('HEXISTS', claims, begun) == 0 then
  return 0
end
redis.call('HSET', claims, begun, table.concat(ARGV, '\n', 2))
return 1
