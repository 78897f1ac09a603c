-- The end of a call of a verb on chosen messages: records the act and that the call is done, if it changed anything;
-- otherwise a full Redis 6.2 would refuse a purge of nothing. Returns how many messages it changed, the score and the
-- member of the row after which the range continues (empty: it is complete), and how many messages it left since they are
-- being processed.
--   plan: as in lib/planned; its last call returns the end of the plan
-- needs: note_act, note_done; args: act, plan
-- gives: changed
local function changed(number, score, member, leased)
  if plan ~= '' then
    -- needs: note_plan
    local total, later, left = note_plan(number)
    if later ~= '' then
      return { total, later, '', left }
    end
  elseif number > 0 then
    note_act(act, number)
    note_done(number, table.concat({ score, member, leased, '' }, ' '))
  end
  return { number, score, member, leased }
end
