-- Records the progress of a streaming query: the last batch that is done, or one that is half of a batch before it. The
-- number never decreases. A batch with rows that is done ends a series of failures, and its rows are no longer suspected.
-- Returns the number, or -1 if another run of the query has begun the batch since `run` did; and how many messages are
-- suspected.
-- drains
local field, batch = ARGV[1], tonumber(ARGV[2]) -- field: done or half
local run, remembered = ARGV[3], ARGV[4] -- run: empty for any run; remembered: milliseconds
-- needs: keys: stream
local stored = redis.call('HMGET', stream, field, 'batch', 'run', 'rows', 'suspected')
local before, rows, suspected = tonumber(stored[1]) or 0, tonumber(stored[4]) or 0, tonumber(stored[5]) or 0
if run ~= '' and tonumber(stored[2]) == batch and stored[3] ~= run then
  return { -1, suspected }
end
local known = math.max(batch, before)
redis.call('HSET', stream, field, known)
if field == 'done' and known > before and rows > 0 then
  suspected = math.max(suspected - rows, 0)
  redis.call('HSET', stream, 'in_a_row', 0, 'suspected', suspected, 'alone', '')
end
redis.call('PEXPIRE', stream, remembered)
return { known, suspected }
