-- Acks messages: they are done, and are removed. Returns a verdict for each, or only SETTLED if all have it; for one of them
-- `acked`, `closed` and the dependency whose breaker they have closed, if any.
-- drains
local with_results = tonumber(ARGV[1]) -- the number of results that precede the items
-- items from ARGV[2]: held (lib/settled; before them the id and the result of each that has one)
local first, act, given = 2 + 2 * with_results, nil, {}
for n = 2, first - 1, 2 do
  given[ARGV[n]] = ARGV[n + 1]
end
-- needs: settled, settled_texts, verdicts, let, SETTLED
if #settled > 0 then
  local ids, texts = settled, settled_texts
  -- needs: acked, back, let_go
  let_go(let)
  for n, verdict in ipairs(back and verdicts or {}) do
    if verdict == SETTLED then
      verdicts[n] = 'acked  closed ' .. back
      return verdicts
    end
  end
elseif next(let) then
  -- needs: let_go
  let_go(let)
end
return #settled == #verdicts and SETTLED or verdicts
