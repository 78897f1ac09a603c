-- Pauses a lane, all messages with one key or one dependency, or resumes it: then they are let in, and for ten minutes
-- failures do not open the breaker of the dependency. Returns 1 if that changed anything, otherwise 0.
-- drains
local number, of, name = tonumber(ARGV[1]), ARGV[2], ARGV[3] -- of: key or dependency; name: its text
local paused, ends, after = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]) -- paused: 1, or 0 to resume
local by, user = ARGV[7], ARGV[8] -- ends, after: the end of the pause, a time or milliseconds from now; empty: none
-- needs: now, setting, read_lane, write_lane, reopen, wake_one, note_audit
local TRUST = 600000 -- milliseconds
local lane = read_lane(number)
ends = after and now + after or ends
if paused == '1' then
  if lane and lane.paused and lane.ends == ends then
    return 0
  end
  lane = lane or { of = of, name = name }
  lane.paused, lane.ends, lane.due, lane.by = lane.paused or now, ends, ends, by
  write_lane(number, lane)
elseif lane and (lane.paused or lane.open) then
  lane.trusts = of == 'dependency' and setting('breaker') and now + TRUST or nil
  reopen(number, lane)
else
  return 0
end
wake_one() -- a waiting client sets the alarm again
note_audit(paused == '1' and 'paused' or 'resumed', by, user, 'chosen', of .. ' ' .. name)
return 1
