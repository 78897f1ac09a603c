-- Notes what an operator did, or had done; the newest thousand notes of a queue stay.
--   did: started, paused, resumed, cancelled, undone or done; by: who, as JSON; user: of Redis
-- needs: keys: audit
-- gives: note_audit
local MOST_NOTES = '1000'

local function note_audit(job, redrive, did, by, user)
  redis.call(
    'XADD', audit, 'MAXLEN', '~', MOST_NOTES, '*', 'job', job, 'did', did, 'by', by, 'user', user,
    'chosen', redrive.chosen, 'how', redrive.how or '', 'eligible', redrive.eligible, 'moved', redrive.moved,
    'gone', redrive.gone, 'expired', redrive.expired, 'refused', redrive.refused, 'acked', redrive.acked,
    'died', redrive.died, 'undone', redrive.undone
  )
end
