-- Pauses a redrive, resumes it, or cancels it. After a resumption it is judged only by outcomes since then. Returns 1; 0 if
-- its state does not allow that; -1 if the redrive does not exist.
local job, verb, by, user, grace = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5] -- verb: pause, resume or cancel
-- needs: now, read_redrive, write_redrive, stop_redrive, note_redrive; keys: redriving
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
