-- Settles held messages. From ARGV[first]: how many, their ids, then each token and how many of these, in a row, it holds.
-- act(id, text), if given, runs for each message that its token holds. `verdicts` has for each a verdict, or the result of
-- act; LOST: it was left alone. `settled` are the ids of those that were settled, `settled_texts` their states before, and
-- `let` is token → how many, with those that were cancelled in the meantime. Statements, as in lib/chosen.
-- needs: SETTLED, SETTLED_BEFORE, LOST, holds; keys: states; locals: first, act
-- gives: settled, settled_texts, verdicts, let
local asked = tonumber(ARGV[first])
local lines = redis.call('HMGET', states, unpack(ARGV, first + 1, first + asked))
local verdicts, settled, settled_texts, let, done, place, size = {}, {}, {}, {}, {}, 0, 0
for item = first + asked + 1, #ARGV, 2 do
  local token, before, seen, is_held = ARGV[item], size, nil, nil -- before: the size so far, less the cancelled messages
  for _ = 1, tonumber(ARGV[item + 1]) do
    place = place + 1
    local id, text = ARGV[first + place], lines[place]
    if text ~= seen then -- most messages have the same state
      seen, is_held = text, holds(token, text)
    end
    if done[id] then
      verdicts[place] = SETTLED_BEFORE
    elseif is_held then
      verdicts[place] = act and act(id, text) or SETTLED
      if verdicts[place] ~= LOST then
        size = size + 1
        settled[size], settled_texts[size], done[id] = id, text, true
      end
    else
      -- needs: refusal, end_cancelled
      verdicts[place] = refusal(id, token, text)
      before = before - (end_cancelled(id, token) and 1 or 0)
    end
  end
  if size > before then
    let[token] = (let[token] or 0) + size - before
  end
end
