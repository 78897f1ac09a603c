-- Begins a batch of a streaming query. If another run of the query had begun the same batch, that run failed before the
-- batch was done. Returns the last batch that is done; how often this one has failed; 1 if it is one half of a batch that
-- failed too often; and how often the query has failed since a batch with rows succeeded.
-- drains
local batch, run, remembered = ARGV[1], ARGV[2], ARGV[3] -- remembered: milliseconds
-- needs: keys: stream
local stored = redis.call('HMGET', stream, 'done', 'batch', 'run', 'failures', 'half', 'in_a_row')
local failures, in_a_row = stored[2] == batch and tonumber(stored[4]) or 0, tonumber(stored[6]) or 0
if stored[2] == batch and stored[3] ~= run then
  failures, in_a_row = failures + 1, in_a_row + 1
end
local done = stored[1] or 0
redis.call('HSET', stream, 'done', done, 'batch', batch, 'run', run, 'failures', failures, 'in_a_row', in_a_row)
redis.call('PEXPIRE', stream, remembered)
return { tonumber(done), failures, stored[5] == batch and 1 or 0, in_a_row }
