-- The fields of a state (lib/state) with the head of this record.
-- needs: head_word
-- gives: with_head
local function with_head(more, record)
  return more:gsub(' head=%S*', ''):gsub(' lane=%S*', ''):gsub(' needs=%S*', '') .. head_word(record)
end
