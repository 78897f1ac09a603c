-- Pauses a lane, all messages with one key or one dependency, or resumes it: then they are let in. A pause ends only at its
-- own time or when it is resumed. To resume a dependency whose breaker is open closes that too, if `close` says so: for ten
-- minutes failures are charged, and do not open it. Returns 1 if that changed anything, otherwise 0; -1 if the breaker is open,
-- and stays so; -2 if the end of the pause has passed: then nothing is done.
-- drains
local number, of, name = tonumber(ARGV[1]), ARGV[2], ARGV[3] -- of: key or dependency; name: its text
local paused, ends, after = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]) -- paused: 1, or 0 to resume
local close, by, user = ARGV[7] == '1', ARGV[8], ARGV[9] -- ends, after: the end of the pause, a time or milliseconds from now
-- needs: now, setting, read_lane, write_lane, reopen, count_parked, wake_one, note_audit
local TRUST = 600000 -- milliseconds
local lane, did, waiting = read_lane(number), 'resumed', count_parked(number)
local is_paused = lane and lane.paused and (not lane.ends or lane.ends > now)
local is_down = lane and lane.open and setting('breaker')
ends = after and now + after or ends
if paused == '1' then
  if ends and ends <= now then
    return -2
  elseif is_paused and lane.ends == ends then
    return 0
  end
  lane, did = lane or { of = of, name = name }, 'paused'
  lane.paused, lane.ends, lane.by = is_paused and lane.paused or now, ends, by
  write_lane(number, lane)
elseif is_down and not close then
  if not is_paused then
    return -1
  end
  lane.paused, lane.ends, lane.by = nil, nil, nil -- its probes go on
  write_lane(number, lane)
elseif lane and (lane.paused or lane.open) then
  if is_down then
    lane.trusts, did = now + TRUST, 'closed'
  end
  reopen(number, lane)
else
  return 0
end
wake_one() -- a waiting client sets the alarm again
note_audit(did, by, user, 'number', waiting, 'chosen', of .. ' ' .. name)
return 1
