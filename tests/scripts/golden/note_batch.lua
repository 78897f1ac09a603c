-- How far a streaming query has come: the last batch that is done, or one that is half of a batch before it. Never
-- goes back. Returns the number.
local stream = KEYS[1]
local field, batch, remembered = ARGV[1], tonumber(ARGV[2]), ARGV[3] -- field: done or half; remembered: milliseconds
local known = math.max(batch, tonumber(redis.call('HGET', stream, field) or 0))
redis.call('HSET', stream, field, known)
redis.call('PEXPIRE', stream, remembered)
return known
