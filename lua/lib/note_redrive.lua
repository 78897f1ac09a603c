-- Records an act on a redrive, and the progress of the redrive.
--   did: started, paused, resumed, cancelled, undone or done; by, user: as in note_audit
-- needs: note_audit
-- gives: note_redrive
local function note_redrive(job, redrive, did, by, user)
  note_audit(
    did, by, user, 'job', job,
    'chosen', redrive.chosen, 'how', redrive.how, 'eligible', redrive.eligible, 'moved', redrive.moved,
    'gone', redrive.gone, 'expired', redrive.expired, 'refused', redrive.refused, 'acked', redrive.acked,
    'died', redrive.died, 'undone', redrive.undone, 'leased', redrive.leased
  )
end
