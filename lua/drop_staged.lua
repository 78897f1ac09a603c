-- Removes a list of a job that was not committed. Returns 1 if there was one.
local committed, staged = KEYS[1], KEYS[2]
local member = ARGV[1]
if redis.call('ZSCORE', committed, member) then
  return 0 -- it was, whatever the caller believes
end
return redis.call('DEL', staged)
