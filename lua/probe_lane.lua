-- Lets one message of a dependency through that is down or paused, to test it now, for an operator. Returns 1, or 0 if none
-- waits.
-- drains
local number, lane, seed, act = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] -- lane: of the dependency; act: as in
-- lib/note_act
-- needs: done
if done then
  return done
end
-- needs: read_lane, let_probe, note_done, note_act
local state = read_lane(lane)
local through = state and let_probe(lane, state, 1, seed) or 0
note_act(act, through)
return note_done(through)
