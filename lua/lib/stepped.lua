-- The end of a step of a redrive: records its progress, and that it is done if no messages are left. Returns after how many
-- milliseconds it may continue; -1: it no longer runs.
--   moved: how many were moved back in this step; grace: milliseconds until maintenance checks it
-- needs: now, KEPT, write_redrive, stop_redrive; keys: redrive, redriving
-- gives: stepped
local function stepped(job, r, moved, over, grace)
  local wait = 0
  r.moved = r.moved + moved
  if r.rate > 0 then
    r.next = r.next + moved * 1000 / r.rate
    wait = math.max(0, math.ceil(r.next - now))
  end
  write_redrive(job, {
    position = r.position, moved = r.moved, gone = r.gone, expired = r.expired, refused = r.refused,
    leased = r.leased, next = r.next, passed = r.passed,
  })
  redis.call('PEXPIRE', redrive, KEPT)
  if over then
    stop_redrive(job, r, 'done', '', r.by, r.user)
    return -1
  end
  redis.call('ZADD', redriving, now + math.max(wait, grace), job)
  return wait
end
