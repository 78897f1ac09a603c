-- Notes how far a streaming query has come: the last batch that is done, or one that is half of a batch before it.
-- The number never goes back. Returns it; -1 where another run of the query has begun the batch since `run` did.
-- drains
local field, batch = ARGV[1], tonumber(ARGV[2]) -- field: done or half
local run, remembered = ARGV[3], ARGV[4] -- run: empty for whichever began it; remembered: milliseconds
-- needs: keys: stream
local stored = redis.call('HMGET', stream, field, 'batch', 'run')
if run ~= '' and tonumber(stored[2]) == batch and stored[3] ~= run then
  return -1
end
local known = math.max(batch, tonumber(stored[1]) or 0)
redis.call('HSET', stream, field, known)
redis.call('PEXPIRE', stream, remembered)
return known
