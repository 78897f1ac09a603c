-- The redelivery policy of a text; false where it cannot be read.
-- A policy that does not decode, or whose arithmetic a newer version brought, must not stop the queue.
local function read_policy(text)
  local decoded, value = pcall(cjson.decode, text or '')
  local found = decoded and type(value) == 'table' and value.redelivery
  return type(found) == 'table' and arithmetics[found.arithmetic] and found
end
