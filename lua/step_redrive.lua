-- Goes on with a redrive: brings back the next of its messages, as many as it may now (lib/room_of_redrive), and pauses it
-- where too few of them succeed. What it has brought back is counted in the same script, so any number of drivers may
-- call this at once. Returns how many came back, and in how many milliseconds it may go on; -1: it does not run.
local job, limit, grace = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
-- grace: milliseconds until maintenance goes on with it, if nobody does; 0: this is maintenance, and does what is due
-- needs: now, KEPT, read_redrive, write_redrive, stop_redrive; keys: redrives, redriving, redrive
local r = read_redrive(job)
local is_due = tonumber(redis.call('ZSCORE', redriving, job) or 0) <= now
if grace == 0 and not is_due then
  return { 0, -1 }
elseif not r or r.state ~= 'running' then
  if is_due then
    -- needs: forget_redrive
    forget_redrive(job)
  end
  return { 0, -1 }
end
-- needs: room_of_redrive
local room, wait = room_of_redrive(job, r, limit)
if not wait then
  stop_redrive(job, r, 'paused', 'success', r.by, r.user)
  return { 0, -1 }
elseif room == 0 then
  redis.call('ZADD', redriving, now + math.max(wait, grace), job)
  return { 0, wait }
end
-- needs: each_chosen, bring_back, wake_one; keys: dead, expired
local source = r.part == 'dead' and dead or expired
local ends = redis.call('HMGET', redrives, job .. ' score', job .. ' member', job .. ' last_score', job .. ' last_member')
local ids = ends[1] and {} or redis.call('LRANGE', redrive, r.position, r.position + room - 1)
local range = ends[1] and { limit = room, score = ends[1], member = ends[2], last_score = ends[3], last_member = ends[4] }
local back = {}
local moved, score, member = each_chosen(source, #ARGV + 1, function(id, state, head, row)
  if state.due > r.latest then -- it was redriven by someone else, and died again
    return false
  end
  bring_back(id, state, head, source, row, r.by, r.cause, job)
  back[#back + 1] = id
end, range or { ids = ids })
local over
if ends[1] then
  over = score == ''
  r.position = r.position + moved
  r.gone = over and math.max(0, r.eligible - r.moved - moved) or 0
  write_redrive(job, { score = score, member = member })
  if moved > 0 then
    redis.call('RPUSH', redrive, unpack(back)) -- for an undo
  end
else
  r.position, r.gone = r.position + #ids, r.gone + #ids - moved
  over = r.position >= r.eligible or #ids == 0
end
r.moved = r.moved + moved
if r.rate > 0 then
  r.next = r.next + moved * 1000 / r.rate
  wait = math.max(0, math.ceil(r.next - now))
end
write_redrive(job, {
  position = r.position, moved = r.moved, gone = r.gone, next = r.next, passed = r.passed,
})
redis.call('PEXPIRE', redrive, KEPT)
if moved > 0 then
  wake_one()
end
if over then
  stop_redrive(job, r, 'done', '', r.by, r.user)
  return { moved, -1 }
end
redis.call('ZADD', redriving, now + math.max(wait, grace), job)
return { moved, wait }
