-- Acks messages: they are done and go. Returns a verdict for each.
-- drains
-- items from ARGV[1]: id, token
local first, width, act = 1, 2, nil
-- needs: settled, settled_texts, verdicts, let
if #settled > 0 then
  local ids, texts = settled, settled_texts
  -- needs: acked, let_go
  let_go(let)
end
return verdicts
