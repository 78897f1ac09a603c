-- The end of a call of a verb on chosen messages: records the act and that the call is done, if it changed anything;
-- otherwise a full Redis 6.2 would refuse a purge of nothing. Returns how many messages it changed, the score and the
-- member of the row after which the range continues (empty: it is complete), and how many messages it left since they are
-- being processed.
-- needs: note_act, note_done; args: act
-- gives: changed
local function changed(number, score, member, leased)
  if number > 0 then
    note_act(act, number)
    note_done(number, table.concat({ score, member, leased, '' }, ' '))
  end
  return { number, score, member, leased }
end
