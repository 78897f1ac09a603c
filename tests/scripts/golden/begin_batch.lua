-- A streaming query begins to work on a batch. If another run of the query began the same batch before, that one
-- failed: the run ended before the batch did. Returns the last batch that is done, how often this one has failed, and
-- 1 if it is one half of a batch that failed too often.
-- drains
local batch, run, remembered = ARGV[1], ARGV[2], ARGV[3] -- remembered: milliseconds
local stream = KEYS[1]
local said = redis.call('HMGET', stream, 'done', 'batch', 'run', 'failures', 'half')
local failures = said[2] == batch and tonumber(said[4]) or 0
if said[2] == batch and said[3] ~= run then
  failures = failures + 1
end
local done = said[1] or 0
redis.call('HSET', stream, 'done', done, 'batch', batch, 'run', run, 'failures', failures)
redis.call('PEXPIRE', stream, remembered)
return { tonumber(done), failures, said[5] == batch and 1 or 0 }
