-- Records an act of an operator on messages of the queue. It may take many calls, which leave one note: the note of the
-- last call, with how many messages the act has changed so far.
--   act: its id, its name, the operator (as JSON), the Redis user, which messages, how; a JSON list. Empty: no note
--   number: how many messages this call changed; 0: no note
-- needs: read_json, note_audit; keys: audit
-- gives: note_act
local NEAR = 10 -- newest notes among which the note of the call before is, even if several operators act concurrently

local function note_act(act, number)
  local told = read_json(act)
  if not told[1] or number == 0 then
    return
  end
  local before
  for _, note in ipairs(redis.call('XREVRANGE', audit, '+', '-', 'COUNT', NEAR)) do
    local cells = note[2]
    if not before and cells[7] == 'act' and cells[8] == told[1] and cells[9] == 'number' then
      before, number = note[1], number + tonumber(cells[10])
    end
  end
  note_audit(told[2], told[3], told[4], 'act', told[1], 'number', number, 'chosen', told[5], 'how', told[6])
  if before then
    redis.call('XDEL', audit, before)
  end
end
