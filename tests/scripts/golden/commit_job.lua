-- The commit point of a job: all that its lists hold is part of the queue from here on, or nothing is. The messages
-- are moved there afterwards, a chunk at a time (`move_staged`), if need be by maintenance. `job` remembers for a
-- while which batch was committed last (a job that is no stream has one, 0), and by which call, so that it can be
-- repeated (I12). Returns 1; 0: this batch, or a later one, was committed by another call; -1: a list is gone, since
-- it outlived its time to live, or is not whole. Of these two nothing comes.
local committed, job = KEYS[1], KEYS[2]
local batch, call = tonumber(ARGV[1]), ARGV[2]
local grace, remembered = tonumber(ARGV[3]), ARGV[4] -- milliseconds; after grace maintenance moves
-- families from KEYS[3]: staged
-- items from ARGV[5]: member, length (of the list)
local BEFORE, AT_ONCE = 2, 1000 -- keys before the lists; members in one ZADD
-- The server's clock in whole milliseconds, read once a script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local last, by = (redis.call('GET', job) or ''):match('^(%d+) (%S+)$')
if by ~= call then
  if last and tonumber(last) >= batch then
    return 0
  end
  local chunks = {}
  for n = 1, #KEYS - BEFORE do
    local staged = KEYS[BEFORE + n]
    if redis.call('LLEN', staged) ~= tonumber(ARGV[4 + 2 * n]) then
      return -1
    end
    if n % AT_ONCE == 1 then
      chunks[#chunks + 1] = {}
    end
    local entries = chunks[#chunks]
    entries[#entries + 1] = now + grace
    entries[#entries + 1] = ARGV[3 + 2 * n]
  end
  for _, entries in ipairs(chunks) do
    redis.call('ZADD', committed, unpack(entries)) -- the moment it counts
  end
  redis.call('SET', job, string.format('%.0f', batch) .. ' ' .. call, 'PX', remembered)
end
for n = 1, #KEYS - BEFORE do
  local staged = KEYS[BEFORE + n]
  redis.call('PERSIST', staged)
end
return 1
