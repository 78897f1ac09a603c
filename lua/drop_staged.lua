-- Deletes a list of a job that was not committed. Returns 1 if the list existed.
local member = ARGV[1]
-- needs: keys: committed, staged
if redis.call('ZSCORE', committed, member) then
  return 0 -- it was committed, whatever the caller believes
end
return redis.call('DEL', staged)
