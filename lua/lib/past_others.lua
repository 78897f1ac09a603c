-- The rows that a claim may take, at most `most`, with their ids and states, if it met suspects or resting dead letters.
-- needs: args: part
-- gives: past_others
local function past_others(source, most, reply)
  if part == 'live' then
    -- needs: past_suspects
    return past_suspects(source, most)
  end
  -- needs: past_resting
  return past_resting(source, most, reply)
end
