-- Stops a redrive: it is done, paused or cancelled. Maintenance forgets it after a week; until then a paused one finds its
-- list.
--   why: of a pause: success, or the operator, as JSON; by: the operator, as JSON; user: the Redis user
-- needs: now, KEPT, write_redrive, note_redrive; keys: redriving, redrive
-- gives: stop_redrive
local function stop_redrive(job, r, state, why, by, user)
  redis.call('ZADD', redriving, now + KEPT, job)
  redis.call('PEXPIRE', redrive, KEPT)
  write_redrive(job, { state = state, why = why })
  note_redrive(job, r, state, by, user)
end
