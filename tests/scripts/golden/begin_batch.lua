-- A streaming query begins to work on a batch. If another run of the query began the same batch before, that one
-- failed: the run ended before the batch did. Returns the last batch that is done, how often this one has failed, and
-- 1 if it is one half of a batch that failed too often.
-- drains
local batch, run, remembered = ARGV[1], ARGV[2], ARGV[3] -- remembered: milliseconds
local stream = KEYS[1]
local stored = redis.call('HMGET', stream, 'done', 'batch', 'run', 'failures', 'half')
local failures = stored[2] == batch and tonumber(stored[4]) or 0
if stored[2] == batch and stored[3] ~= run then
  failures = failures + 1
end
local done = stored[1] or 0
redis.call('HSET', stream, 'done', done, 'batch', batch, 'run', run, 'failures', failures)
redis.call('PEXPIRE', stream, remembered)
return { tonumber(done), failures, stored[5] == batch and 1 or 0 }
