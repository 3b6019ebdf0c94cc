-- Publishes a message about a ticket to its client's inbox. Returns how many connections received it: 0 if the client
-- is gone.
local function notify(inboxPrefix, ticket, message)
  local client, number = string.match(ticket, '^(.+):(%d+)$')
  if client == nil then
    return 0
  end
  return redis.pcall('publish', inboxPrefix .. client, message .. ' ' .. number)
end
