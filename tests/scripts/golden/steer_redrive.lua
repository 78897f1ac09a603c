-- Pauses a redrive, resumes it, or cancels it. After a resumption it is judged only by outcomes since then. Returns 1; 0 if
-- its state does not allow that; -1 if the redrive does not exist.
local job, verb, by, user, grace = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] -- verb: pause, resume or cancel
local redrives, redriving, audit, redrive = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
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
-- Stops a redrive: it is done, paused or cancelled. Maintenance forgets it after a week; until then a paused one finds its
-- list.
--   why: of a pause: success, or the operator, as JSON; by: the operator, as JSON; user: the Redis user
local function stop_redrive(job, r, state, why, by, user)
  redis.call('ZADD', redriving, now + KEPT, job)
  redis.call('PEXPIRE', redrive, KEPT)
  write_redrive(job, { state = state, why = why })
  note_redrive(job, r, state, by, user)
end
local THEN = {
  pause = { running = 'paused' },
  resume = { paused = 'running' },
  cancel = { running = 'cancelled', paused = 'cancelled' },
}
local r = read_redrive(job)
if not r then
  return -1
end
local state = THEN[verb][r.state]
if verb == 'resume' and r.state == 'running' and r.canary > 0 and r.passed == 0 then -- it waits for its canary
  state = 'running'
end
if not state then
  return 0
end
if state == 'running' then
  redis.call('ZADD', redriving, now + grace, job)
  write_redrive(job, { state = state, why = '', next = now, passed = 1, acked_before = r.acked, died_before = r.died })
  note_redrive(job, r, 'resumed', by, user)
else
  stop_redrive(job, r, state, state == 'paused' and by or '', by, user)
end
return 1
