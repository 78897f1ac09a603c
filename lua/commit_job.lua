-- The commit point of a job: from here on all messages of its lists are part of the queue, or none is. They are moved there
-- afterwards, a chunk at a time (`move_staged`), if necessary by maintenance. `job` remembers for a while which batch was
-- committed last (0 for a job that is not a stream) and by which call, so that the call can be repeated (I12). Returns 1; 0
-- if another call committed this batch or a later one; -1 if a list has outlived its time to live or is incomplete; -2 if
-- the queue was deleted since the client opened it. In the last three cases this call commits nothing.
local batch, call = tonumber(ARGV[1]), ARGV[2]
local grace, remembered = tonumber(ARGV[3]), ARGV[4] -- milliseconds; after grace maintenance moves the messages
local opening = ARGV[5]
-- items from ARGV[6]: member, length (of the list)
local AT_ONCE = 1000 -- members in one ZADD
-- needs: now; keys: committed, job
local lists = (#ARGV - 5) / 2
local last, by = (redis.call('GET', job) or ''):match('^(%d+) (%S+)$')
if by ~= call then
  if last and tonumber(last) >= batch then
    return 0
  end
  -- needs: is_open
  if not is_open then
    return -2
  end
  local chunks = {}
  for n = 1, lists do
    -- needs: keys: staged; family: n
    if redis.call('LLEN', staged) ~= tonumber(ARGV[5 + 2 * n]) then
      return -1
    end
    if n % AT_ONCE == 1 then
      chunks[#chunks + 1] = {}
    end
    local entries = chunks[#chunks]
    entries[#entries + 1], entries[#entries + 2] = now + grace, ARGV[4 + 2 * n]
  end
  for _, entries in ipairs(chunks) do
    redis.call('ZADD', committed, unpack(entries)) -- the commit takes effect
  end
  redis.call('SET', job, string.format('%.0f', batch) .. ' ' .. call, 'PX', remembered)
end
for n = 1, lists do
  -- needs: keys: staged; family: n
  redis.call('PERSIST', staged)
end
return 1
