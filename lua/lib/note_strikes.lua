-- Once all messages of a call are judged: writes the signs that lib/strike has counted, and opens the breakers of
-- dependencies that are down. While one comes back, each failure lets one message more through.
-- needs: struck, read_lane
-- gives: note_strikes
local function note_strikes()
  for dependency, tally in pairs(struck) do
    local lane = read_lane(dependency)
    if tally.signs then
      -- needs: write_signs, note_failures
      note_failures(tally.name, tally.ids)
      write_signs(tally.name, tally.signs)
    end
    if tally.opens then
      -- needs: open_breaker, forget_signs
      open_breaker(dependency, tally.since, tally.opens, tally.error)
      forget_signs(tally.name)
    elseif lane and lane.open then
      -- needs: write_lane
      lane.error = tally.error
      write_lane(dependency, lane)
    elseif lane and lane.drains and not lane.paused then
      -- needs: drain
      drain(dependency, lane, tally.failed)
    end
  end
end
