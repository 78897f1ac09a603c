-- Begins a redrive. Its list holds the ids of its messages, in order; without a list it takes all messages that are now in
-- its part of the queue. Returns 1, even if it had begun before; 0 if the list is incomplete; -1 if too many redrives are
-- active; -2 if there is nothing to redrive; 2 if another job has carried out the plan. In the last four cases nothing was
-- done.
local job, record, listed, gone, leased, grace = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local made, returned_before = ARGV[7], ARGV[8]
-- made, returned_before: of a plan, its AT and RETURNED (lib/planned); its register then holds the job. Empty: no plan
-- record: JSON; listed: how many ids the list holds; empty: it takes all. gone: how many of the requested ids are gone;
-- leased: of the messages, which are left out; grace: milliseconds until maintenance continues it
local MOST_REDRIVES = 100 -- redrives that a queue remembers
local dead, expired, counters, redrives, redriving = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local audit, sender, redrive = KEYS[6], KEYS[7], KEYS[8]
-- The server's clock in whole milliseconds, read once per script (I11).
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
-- A setting that is JSON, as a table; an empty one if it cannot be read, since that must not stop the queue.
local function read_json(text)
  local decoded, value = pcall(cjson.decode, text or '')
  return decoded and type(value) == 'table' and value or {}
end
-- The record of a redrive: the request, as JSON, under its id, and the parts that change, under "id name". All redrives are
-- in one hash, so that an ack can count for any of them without another key.
local KEPT = 604800000 -- milliseconds for which a redrive is remembered when it does not run: a week
local OF_REDRIVE = {
  'state', 'why', 'eligible', 'position', 'moved', 'gone', 'expired', 'refused', 'undone', 'latest', 'next', 'passed',
  'acked', 'died', 'acked_before', 'died_before', 'ended', 'returned', 'leased',
}
local TEXTS = { 'part', 'chosen', 'by', 'user', 'cause', 'to', 'how' } -- fields of the request
local NUMBERS = { 'rate', 'canary', 'min_success', 'ttl' }

local function are(kind, found, names, first)
  for n = first, #names do
    if type(found[names[n]]) ~= kind then
      return false
    end
  end
  return true
end

-- nil: the redrive does not exist, or is damaged.
local function read_redrive(job)
  local names = {}
  for n, name in ipairs(OF_REDRIVE) do
    names[n] = job .. ' ' .. name
  end
  local cells = redis.call('HMGET', redrives, job, unpack(names))
  local found = read_json(cells[1] or '')
  found.ttl, found.to, found.how = found.ttl or 0, found.to or '', found.how or '' -- an earlier version may have begun it
  for n, name in ipairs(OF_REDRIVE) do
    found[name] = tonumber(cells[n + 1] or 0) or cells[n + 1]
  end
  local is_whole = are('string', found, TEXTS, 1) and are('number', found, NUMBERS, 1)
  return is_whole and are('number', found, OF_REDRIVE, 3) and found or nil -- the first two are texts
end

local function write_redrive(job, changes)
  local cells = {}
  for name, value in pairs(changes) do
    cells[#cells + 1], cells[#cells + 2] = job .. ' ' .. name, value
  end
  redis.call('HSET', redrives, unpack(cells))
end
-- Records an act of an operator, or one that an operator had ordered; a queue keeps the newest thousand notes.
--   did: the act, in a word; by: the operator, as JSON; user: the Redis user; then more names and values
local MOST_NOTES = '1000'

local function note_audit(did, by, user, ...)
  redis.call('XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'did', did, 'by', by, 'user', user, ...)
  redis.call('PERSIST', audit) -- the queue may have been deleted (delete), and created again
end
-- Records an act on a redrive, and the progress of the redrive.
--   did: started, paused, resumed, cancelled, undone or done; by, user: as in note_audit
local function note_redrive(job, redrive, did, by, user)
  note_audit(
    did, by, user, 'job', job,
    'chosen', redrive.chosen, 'how', redrive.how, 'eligible', redrive.eligible, 'moved', redrive.moved,
    'gone', redrive.gone, 'expired', redrive.expired, 'refused', redrive.refused, 'acked', redrive.acked,
    'died', redrive.died, 'undone', redrive.undone, 'leased', redrive.leased
  )
end
if redis.call('HEXISTS', redrives, job) == 1 then
  return 1
elseif listed ~= '' and redis.call('LLEN', redrive) ~= tonumber(listed) then
  return 0
end
local known = made ~= '' and redis.call('GET', sender)
if known and known ~= job and redis.call('HEXISTS', redrives, known) == 1 then
  return 2
end
local asked = read_json(record)
local source = asked.part == 'dead' and dead or expired
local last = redis.call('ZRANGE', source, -1, -1, 'WITHSCORES')
if listed == '' and not last[1] then
  return -2
end
if redis.call('ZCARD', redriving) >= MOST_REDRIVES then -- the oldest that has ended is forgotten
  local over
  for _, other in ipairs(redis.call('ZRANGE', redriving, 0, -1)) do
    local state = redis.call('HGET', redrives, other .. ' state')
    if state ~= 'running' and state ~= 'paused' then
      over = other
      break
    end
  end
  if not over then
    return -1
  end
  -- Removes the record of a redrive. The list of its ids expires.
  local function forget_redrive(job)
    redis.call('HDEL', redrives, job, job .. ' score', job .. ' member', job .. ' last_score', job .. ' last_member')
    for _, name in ipairs(OF_REDRIVE) do
      redis.call('HDEL', redrives, job .. ' ' .. name)
    end
    redis.call('ZREM', redriving, job)
  end
  forget_redrive(over)
end
local latest = tonumber(made) or math.max(now, tonumber(last[2] or 0)) -- the clock may have stepped back
local returned = tonumber(returned_before) or redis.call('HGET', counters, 'returned') or 0
local eligible = listed == '' and redis.call('ZCARD', source) or listed
redis.call('ZADD', redriving, now + grace, job)
redis.call('PEXPIRE', redrive, KEPT)
write_redrive(job, { state = 'running', eligible = eligible, gone = gone, leased = leased, latest = latest, next = now })
write_redrive(job, { acked = 0, died = 0, returned = returned })
if made ~= '' then
  redis.call('PSETEX', sender, '3600000', job)
end
if listed == '' then
  write_redrive(job, { last_score = last[2], last_member = last[1] })
end
redis.call('HSET', redrives, job, record) -- from here on it has begun
note_redrive(job, read_redrive(job), 'started', asked.by, asked.user)
return 1
