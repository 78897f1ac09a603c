-- Settles the items (id, token, …) that begin at ARGV[first], `width` values each: act(id, text, i), if there is one, for
-- each item whose token holds, i being the position of the item in ARGV. `verdicts` has for each item a verdict, or what
-- act returned; LOST: it was left alone. `settled` are the ids of the others, `settled_texts` the states that they had, and
-- `let` is token → how many. Statements, as in lib/chosen.
-- needs: SETTLED, SETTLED_BEFORE, LOST, holds; keys: states; locals: first, width, act
-- gives: settled, settled_texts, verdicts, let
local asked, verdicts, settled, settled_texts, let, done = {}, {}, {}, {}, {}, {}
for i = first, #ARGV, width do
  asked[#asked + 1] = ARGV[i]
end
local lines = redis.call('HMGET', states, unpack(asked))
for n = 1, #asked do
  local i = first + (n - 1) * width
  local id, token, text = ARGV[i], ARGV[i + 1], lines[n]
  if done[id] then
    verdicts[n] = SETTLED_BEFORE
  elseif holds(token, text) then
    verdicts[n] = act and act(id, text, i) or SETTLED
    if verdicts[n] ~= LOST then
      settled[#settled + 1], settled_texts[#settled + 1] = id, text
      done[id], let[token] = true, (let[token] or 0) + 1
    end
  else
    -- needs: refusal
    verdicts[n] = refusal(id, token, text)
  end
end
