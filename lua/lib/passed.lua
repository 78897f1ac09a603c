-- Keeps, of the rows that a claim may take, those that no closed lane stops (lib/past_gates).
-- needs: gated, rows, ids, texts
-- gives: passed
local passed = true
if gated and #rows > 0 then
  -- needs: past_gates
  local before = #rows
  rows, ids, texts = past_gates(rows, ids, texts)
  passed = #rows == before
end
