-- Records an act of an operator that takes one call.
--   act: as in lib/note_act; empty: no note
-- needs: read_json, note_audit
-- gives: note_once
local function note_once(act)
  local told = read_json(act)
  if told[1] then
    note_audit(told[2], told[3], told[4], 'act', told[1], 'chosen', told[5], 'how', told[6])
  end
end
