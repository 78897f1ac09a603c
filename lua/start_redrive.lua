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
-- needs: now, read_json, KEPT, read_redrive, write_redrive, note_redrive
-- needs: keys: redrives, redriving, redrive, sender, dead, expired, counters
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
  -- needs: forget_redrive
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
